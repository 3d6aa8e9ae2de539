"""What the demo stands on: a relay that catches the mail. Nothing here is for real mail, and no other room uses it."""
