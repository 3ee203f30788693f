"""The stream state that a client carries: checking it, reading it, writing it."""
