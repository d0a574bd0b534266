//! The few frames of the client protocol that a readiness check needs.
