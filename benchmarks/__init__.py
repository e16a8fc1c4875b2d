"""Measurements: `make bench` prints ratios within one run, because machines are noisy."""
