"""A model's files, wherever they are: a local folder or bundle, later S3."""
