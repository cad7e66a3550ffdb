"""Arms that differ from one recipe: trained with several seeds, asked, compared, and reported."""
