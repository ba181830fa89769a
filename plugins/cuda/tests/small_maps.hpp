// maps: small coloured images to train on GPUs.
#pragma once

#include <cstdint>  // counts

#include <gx/loader/synthetic.hpp>  // synthetic

namespace gx::cuda_tests {

/// 3 x 8 x 8 in 4 classes.
inline Split maps(std::int64_t train, std::int64_t test = 8) {
    return synthetic({.shape = {3, 8, 8},
                      .classes = 4,
                      .train_count = train,
                      .test_count = test,
                      .noise = 80,
                      .seed = 5});
}

}  // namespace gx::cuda_tests
