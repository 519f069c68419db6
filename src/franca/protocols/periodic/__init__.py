"""The Periodic protocol: the document's dialect and today's, told apart by their first bytes."""
