"""Results in, tables, figures and pages out; nothing is computed here."""
