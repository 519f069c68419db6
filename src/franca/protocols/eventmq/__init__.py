"""EventMQ (eMQP/1.0 over ZMTP 3.x): bytes, messages, dialogue, workers, schedules, topics."""
