"""Channels: the only code that knows a chat platform. One small contract, abilities as separate protocols."""
