"""Errors that stop a build. Each message says what is missing and what to do."""

from core.errors import ConfigurationError


class PackageError(ConfigurationError):
    """The package cannot be built on this machine, or what was built must not be shipped."""
