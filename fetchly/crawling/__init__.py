"""Seeds and a schema in, records of a whole site out: fetched politely, extracted, kept so that a run can go on."""
