"""Measurements of the gateway, run with ``make bench``."""
