"""A model's files, wherever they are: a local folder or bundle, or a bundle in S3."""
