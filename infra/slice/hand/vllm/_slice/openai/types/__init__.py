"""Only subpackages: nothing that the slice needs is imported from here."""

# replaces openai 3.57.0: sha256:98f15c4ee123816edfbbd0b758a67ca30b80f80939d158e8bed9a1b518d7c6ae
