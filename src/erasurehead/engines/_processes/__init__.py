"""Workers as processes of this machine; `engine.py` raises the limit of open files as far as it may."""
