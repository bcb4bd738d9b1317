// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* the EQ of a completion vector is made when it is first asked for */
#include <linux/mlx5/driver.h>

int probe(struct mlx5_core_dev *mdev, u16 vector, int *eqn)
{
	return mlx5_comp_eqn_get(mdev, vector, eqn);
}
