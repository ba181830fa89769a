// Written by reference/oracle/clip_fixture.py with PyTorch 2.15.0, in double; do not edit.
#pragma once

// clang-format off

namespace gx::testing::clip {

inline constexpr float max_norm = 14.25f;
inline constexpr int clipped = 29;  // steps of 50
inline constexpr double parameters[] = {
    -0x1.cbb8af0303997p+0, -0x1.327f4ffc4606dp+0, -0x1.46d058b6af721p-1, -0x1.8dd004c5d3d90p-4,
    0x1.03e128cfbe631p-1, 0x1.07d8cc0c6cd5ep+0, 0x1.923dbef1de064p+0, -0x1.c589273d3cc46p+0,
    -0x1.2b5069d447671p+0, -0x1.29220f1a0aec6p-1, -0x1.3035a4c1b77e6p-4, 0x1.100273aac43b0p-1,
    0x1.0dcb0f0c30e20p+0, 0x1.984e91e1769f8p+0, -0x1.bed287d423dccp+0, -0x1.1ad518601a73cp+0,
    -0x1.1d1ba242f60bcp-1, -0x1.a887bfb82aa9ap-5, 0x1.1c19671f6c19ap-1, 0x1.13bdc3e942544p+0,
    0x1.9e62f19db2c48p+0, -0x1.b1434b01077e1p+0, -0x1.14ac3cd7d9df4p+0, -0x1.111d557bb8dd5p-1,
    -0x1.f08f55b69413ap-6, 0x1.28275d3aec35ap-1, 0x1.19b1e9f1a9a25p+0, 0x1.a6b86845b9005p+0,
    -0x1.9e06e94072644p+0, -0x1.0e8859a66743cp+0, -0x1.0525883196086p-1, -0x1.549295b75dbccp-7,
    0x1.342dccbf0015ep-1, 0x1.209653366e916p+0, 0x1.acd58fbe9697ap+0, -0x1.97d1cd7876faep+0,
    -0x1.0868ce4bb480ep+0, -0x1.f2651e5b70794p-2, 0x1.712decc72f879p-7, 0x1.40f9514fbd685p-1,
    0x1.347973ceedb12p+0, 0x1.b2f78fa80f703p+0, -0x1.919f11ef1df0cp+0, -0x1.024cf22293162p+0,
    -0x1.da857317031ebp-2, 0x1.168cb83fdad8dp-5, 0x1.59bae97886de1p-1, 0x1.3a75859061256p+0,
    0x1.b91f0863b7115p+0, -0x1.8b6e13bc3f8c2p+0, -0x1.f8682b563fe2bp-1, -0x1.c2a8ac9ad2b7fp-2,
    0x1.ff8645311f144p-5, 0x1.65b39c02b321dp-1, 0x1.406fb81a6e6ddp+0, 0x1.bf4c9064a252fp+0,
    -0x1.853e2e2ed3130p+0, -0x1.ec3b07e45ecb7p-1, -0x1.a84cb9ca3f4e8p-2, 0x1.6e0e9c32472a9p-3,
    0x1.71a64585fe62dp-1, 0x1.4668f6605f0f0p+0, 0x1.c580b329e286dp+0, -0x1.7f0ebc5019b16p+0,
    -0x1.e011081d4fecep-1, -0x1.66ea4b6305e1ap-2, 0x1.9df3d58cb01dfp-3, 0x1.7d94b1ed83fc3p-1,
    0x1.4c622d66b184fp+0, 0x1.cbbbf06768a9fp+0, -0x1.78df1a63b34f8p+0, -0x1.c94cce8ee3e99p-1,
    -0x1.4f066760b1845p-2, 0x1.cdf040dfe1a92p-3, 0x1.8980b9fc4a021p-1, 0x1.525c4a03b2190p+0,
    0x1.d1febb604dc22p+0, -0x1.71844d784c09dp+0, -0x1.aa2fdac4fef48p-1, -0x1.372c267c19b8bp-2,
    0x1.fdfa9ce1af6bbp-3, 0x1.956c3e54ba2efp-1, 0x1.5858369f79e73p+0, 0x1.d8497a73de6cdp+0,
    -0x1.5a97272015daep+0, -0x1.9e050a626ef67p-1, -0x1.1f58e197949f1p-2, 0x1.1707dd755e976p-2,
    0x1.a159226f5f889p-1, 0x1.5e6c5b9fb0ab7p+0, -0x1.0034fbce0041ap+1, -0x1.546048e61c001p+0,
    -0x1.91e46111c8e5fp-1, -0x1.078a400266db0p-2, 0x1.2f17ee10a154bp-2, 0x1.ad49479808df7p-1,
    -0x1.146a6710a8061p-2, 0x1.1c928b0ff8123p-2, 0x1.d36226656cf73p-1, 0x1.791a125f78f55p+0,
    -0x1.e24a349174b12p+0, -0x1.62ce91210a336p+0, -0x1.8a6888a573bd1p-1, -0x1.89bbc95d570d0p-3,
    0x1.351a8ab5db767p-2, 0x1.dfc79d781f0b3p-1, 0x1.7f35ee889a605p+0, -0x1.dc5249c0595a8p+0,
    -0x1.5cfc873899bbdp+0, -0x1.71a6f07caa473p-1, -0x1.59db3b51bb6b4p-3, 0x1.4db86da479fbfp-2,
    0x1.ec2999dddbd49p-1, 0x1.854ecb000d84dp+0, -0x1.d65b18214d40ap+0, -0x1.55b4bad10f9a2p+0,
    -0x1.65ae3df27e038p-1, -0x1.2a09a7015126cp-3, 0x1.666e8da827020p-2, 0x1.f88964f8b4c77p-1,
    0x1.8b655cb8fe107p+0, -0x1.cfc41b6d28666p+0, -0x1.37ef19744fad7p+0, -0x1.59bb946f32c28p-1,
    -0x1.f47f69a3983e3p-4, 0x1.7f3f18bd27cf1p-2, 0x1.0274245b13c4fp+0, 0x1.917a5c9c85800p+0,
    -0x1.bf6b7fd35a0b4p+0, -0x1.31f27249028f2p+0, -0x1.4dcd2807ad297p-1, -0x1.94ebf93e70e09p-4,
    0x1.982c0db3405bep-2, 0x1.08a3c6477a26fp+0, 0x1.9cdc7963bb823p+0, -0x1.b97286d2c4f3fp+0,
    0x1.592bd305b728fp+0, 0x1.e8458882ca04bp+0, -0x1.8a1518d1102dcp+0, -0x1.06dd031507ccap+0,
    -0x1.7e9a6a106924bp-2, 0x1.c61ca87c65bfep-3, 0x1.9b77e60de41d0p-1, 0x1.5f5e8e8990308p+0,
    -0x1.1489941c9252dp+0, -0x1.134bd27ab4892p-1, 0x1.072e7288a4b7dp-5, 0x1.2ec907893a9bfp-1,
    0x1.c9505c5862f48p-2, 0x1.103334f3e3352p+0, 0x1.abea139de515fp+0, -0x1.d290f688e5d8dp+0};

}  // namespace gx::testing::clip
