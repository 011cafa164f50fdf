"""Certificates: bounds that prove how good a solution is."""
