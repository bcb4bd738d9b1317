/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_MLX5_DRIVER_H
#define _COMPAT_LINUX_MLX5_DRIVER_H

#include_next <linux/mlx5/driver.h>

/* the three came together */
#ifndef HAVE_MLX5_COMP_EQN_GET
static inline int mlx5_comp_eqn_get(struct mlx5_core_dev *mdev, u16 vector, int *eqn)
{
	return mlx5_vector2eqn(mdev, vector, eqn);
}

static inline unsigned int mlx5_comp_vectors_max(struct mlx5_core_dev *mdev)
{
	return mlx5_comp_vectors_count(mdev);
}

static inline int mlx5_comp_vector_get_cpu(struct mlx5_core_dev *mdev, int vector)
{
	struct cpumask *mask = mlx5_comp_irq_get_affinity_mask(mdev, vector);

	return mask ? cpumask_first(mask) : 0;
}
#endif

#endif
