"""What the user says (`NeuralMIP`), what it becomes (arrays, maps), and what comes back (a verified
`Solution`).
"""
