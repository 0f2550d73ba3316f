//! What changes do to the tables and to stamps.
