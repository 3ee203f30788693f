"""What the measurements share: what is measured, how time is taken, and how results are shown."""
