"""The two blocks of the split: mixed-integer on one side, the network on the other."""
