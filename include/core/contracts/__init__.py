"""Plain types that several rooms share. No behaviour lives here."""
