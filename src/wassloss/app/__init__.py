"""The application around the library: tables, comparison, models on disk, reports, the command line."""
