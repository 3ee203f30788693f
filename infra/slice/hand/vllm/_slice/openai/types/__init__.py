"""Only subpackages: nothing that the slice needs is imported from here."""
