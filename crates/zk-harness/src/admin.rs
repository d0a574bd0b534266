//! Four-letter commands, parsed into types.
