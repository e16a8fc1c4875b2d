"""Language models behind OpenAI's two APIs: the Responses API, and Chat Completions of any compatible server.

Nothing is imported here, so that the SDK is loaded only by a daemon that has such an agent.
"""
