-- Words of Chinese and Japanese are signs since 0049: those of skills that are there already are told apart anew.
INSERT INTO settings (name, value) SELECT 'skills_indexed_through', '' WHERE EXISTS (SELECT 1 FROM market_agents);
