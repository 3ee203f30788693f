"""The application as a Python distribution: one package, ``derender``, that holds everything else in private."""
