"""A neural MIP of your own: change the data, the network and the model, then run this file."""

import numpy as np
import pyscipopt
import torch

from ddmip_lib import NeuralMIP, solve

# 1. Your data: inputs (records, features) and outputs (records, outputs) in their own units.
rng = np.random.default_rng(0)
inputs = rng.uniform([0, 0], [6, 4], (400, 2))
outputs = 8 * (1 - np.exp(-(inputs[:, :1] + 1.5 * inputs[:, 1:]) / 4))

# 2. Your network: any differentiable torch.nn.Module, in evaluation mode.
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).double()
optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(500):
    optimiser.zero_grad()
    loss = ((net(torch.tensor(inputs)) - torch.tensor(outputs)) ** 2).mean()
    loss.backward()
    optimiser.step()

# 3. Your model: inputs with the bounds of the data, outputs with lb=None.
model = pyscipopt.Model("my problem")
x = model.addMatrixVar((3, 2), vtype="I", lb=0, ub=[[6, 4]] * 3, name="x")
y = model.addMatrixVar((3, 1), lb=None, name="y")
model.addCons(x[:, 0].sum() + 2 * x[:, 1].sum() <= 12, name="budget")
model.setObjective(y.sum() - 0.2 * x.sum(), "maximize")
problem = NeuralMIP(model)
problem.add_predictor(net.eval(), x, y)  # y = net(x), one sample for each row of x

# 4. Solve, verify, read the values.
solution = solve(problem, time_limit=30, seed=0)
print(solution)
assert problem.verify(solution).feasible
print(solution[x].tolist())
