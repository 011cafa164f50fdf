"""The user's problem (`NeuralMIP`), its arrays and maps (`Instance`), and its `Solution`."""
