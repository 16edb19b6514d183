-- What trials from outside showed: statements that arrive late, locks anybody can take, input nobody expected.

