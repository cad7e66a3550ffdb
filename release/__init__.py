"""How the models that come with the package are made, step by step: `python -m release.nano STEP`."""
