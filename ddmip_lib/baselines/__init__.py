"""What Algorithm 1 is compared with: exact models, enumeration, a gradient heuristic."""
