"""Agents that speak the Agent Client Protocol: one child process per session, none left behind.

`process` is the child, `transport` what protects us from its output, `session` one conversation with it, `resuming`
how an old one is taken up, `pool` how many there may be and when they go, `agent` the turn's side of it all.
"""
