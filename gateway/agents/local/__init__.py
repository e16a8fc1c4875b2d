"""A language model of one's own: llama.cpp in a child process on loopback, spoken to like any compatible server."""
