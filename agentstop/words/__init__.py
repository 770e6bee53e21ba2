"""What people read: sentences and labels, to be translated, and the pure functions that choose among them."""
