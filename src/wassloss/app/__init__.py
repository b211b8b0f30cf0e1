"""The application built on the library: tables, `compare`, saved models, reports and commands."""
