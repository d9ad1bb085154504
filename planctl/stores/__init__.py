"""The stores: where plans are kept. The only place with database drivers, each imported when it is used."""
