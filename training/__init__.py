"""Everything that trains models; nothing here is imported by a service."""
