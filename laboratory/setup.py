"""What setup.cfg cannot say: which version of txqueue the laboratory needs."""

from pathlib import Path

from setuptools import setup

VERSION = Path(__file__).with_name("VERSION").read_text("utf-8").strip()

# It uses modules of txqueue that are not public.
setup(install_requires=[f"txqueue=={VERSION}"])
