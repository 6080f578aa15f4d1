"""`python -m mcgpo_data` is `mcgpo`."""

from mcgpo_data.cli import main

if __name__ == "__main__":
    main()
