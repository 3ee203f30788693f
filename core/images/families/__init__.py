"""Families of models: what each makes of an image, one module a family, chosen by architecture in ``table``."""
