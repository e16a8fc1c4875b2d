"""What an agent asks of people: put to them with buttons, decided once, and closed visibly whatever happens."""
