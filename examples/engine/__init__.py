"""The parts of the scripted token engine (examples/scripted_engine.py).

It must never import the service: an engine that shares its code would share its mistakes.
"""
