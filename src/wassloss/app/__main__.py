"""`python -m wassloss.app`, for when the command is not on the path."""

from wassloss.app.cli import main

if __name__ == "__main__":  # doctests import it too
    main()
