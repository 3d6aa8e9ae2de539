"""What the tests stand on: servers, clocks, certificates. No test and no product code here."""
