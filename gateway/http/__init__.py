"""The HTTP side: thin handlers that map requests to the daemon's operations and records to JSON."""
