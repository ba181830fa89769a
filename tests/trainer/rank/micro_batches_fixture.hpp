// Written by reference/oracle/micro_batches_fixture.py with PyTorch 2.15.0 and NumPy 2.4.6.
#pragma once

// clang-format off

namespace gx::testing::micro_batches {

inline constexpr unsigned order[5][12] = {
    {8, 10, 11, 5, 2, 4, 6, 7, 9, 0, 3, 1},
    {1, 3, 11, 0, 10, 2, 7, 4, 6, 8, 5, 9},
    {9, 1, 3, 11, 10, 5, 4, 2, 7, 6, 0, 8},
    {5, 8, 10, 2, 0, 11, 6, 9, 7, 1, 3, 4},
    {9, 5, 10, 1, 8, 7, 4, 6, 3, 2, 0, 11},
};
inline constexpr double parameters[] = {
    -0x1.5714ea91468fap-3, 0x1.ab0156793fcd7p-4, -0x1.9bb489c6aecdbp-2, 0x1.5d58925c89f4ep-2,
    -0x1.abe19032a823ep-3, 0x1.6c5a06adfe778p-5, -0x1.46ba1df1e9e75p-3, 0x1.3bbdf623a5e75p-2,
    -0x1.0707f2decd7f2p-2, 0x1.579744377651cp-2, -0x1.ff9cf0e203956p-5, -0x1.66fc4abcb6c98p-2,
    0x1.2e3c3ca6a5b86p-4, -0x1.30a700f4809e9p-2, 0x1.887cc5c0f7823p-4, -0x1.9ebb68311a37fp-3,
    0x1.94cef9a551a69p-3, -0x1.7775cb1084c45p-3, 0x1.64baa791bbdb8p-3, -0x1.52d56f5f73195p-4,
    0x1.2076c85177b9ep-2, -0x1.6cc37780889e8p-4, -0x1.5efe91636d799p-2, 0x1.4005ff9e404a5p-4,
    -0x1.32b66d24abadcp-2, 0x1.d67ca59b07193p-4, -0x1.ca3740304a03dp-3, 0x1.88c6cf5c65dc9p-3,
    -0x1.78d0d200ba6dep-4, 0x1.393626785cc0ep-2, -0x1.136d784f215aap-3, 0x1.62aa53c3b2d71p-2,
    0x1.dac4a67cf667ap-6, -0x1.55c2d0479a0cbp-2, 0x1.1cbe6ada41272p-4, -0x1.15dc246a59be6p-2,
    0x1.b9d81b0e85af8p-4, -0x1.b642672c93acap-3, 0x1.95f90df1502f4p-3, -0x1.28e3ce51c9fbep-3,
    0x1.187981dd13b41p-2, -0x1.12972ba7c74d8p-4, 0x1.6da707c7dcbe6p-2, 0x1.b910709519359p-9,
    -0x1.6d8cefa9131b0p-2, 0x1.fe06e32c563bep-5, -0x1.07769cc6ce3dfp-2, 0x1.0643b1ca425b4p-3,
    -0x1.cd81bba796fcap-3, 0x1.af8687bbe0e5ap-3, -0x1.057e642994783p-3, 0x1.19768c4326493p-2,
    -0x1.f6c70c6adea30p-5, 0x1.6800000000000p-2, 0x1.4cecab02d7c74p-7, -0x1.3b88ed06cd8a3p-2,
    0x1.7ab3d530efaa6p-4, -0x1.c2f605479c732p-3, 0x1.1c52017ab51cfp-3, -0x1.bf542298cedeep-3,
    0x1.e4c867d46647ep-3, -0x1.2ad03784d372bp-3, 0x1.344e5dda0db26p-2, -0x1.0a49042fcdc8ep-5,
    0x1.628ceeaad3531p-2, -0x1.a8c2420986a6ep-8, -0x1.29507f9fac984p-2, 0x1.0bfacf8d122e0p-3,
    -0x1.fd7602276e0aep-3, 0x1.dd9e596fb3da3p-4, -0x1.6c4c90ba873d2p-3, 0x1.daa4eadd7febdp-3,
    -0x1.da8857db06a52p-4, 0x1.2869da19a9864p-2, -0x1.ae2d40b5aab1bp-5, 0x1.8a8b59ff9d1fep-2,
    0x1.6d9353e5476bdp-6, -0x1.505018ac44ac5p-2, 0x1.6f3b24cffb828p-4, -0x1.cebca0b807077p-3,
    0x1.6aa91b2d19a78p-3, -0x1.707410e7b5b9cp-3, 0x1.d3212f3733d8dp-3, -0x1.a74e768642d64p-4,
    0x1.44b2facc5e7d0p-2, -0x1.4000000000000p-5, 0x1.6c972c0b56bb5p-2, -0x1.47892e0c28865p-6,
    -0x1.43f68827903cdp-2, 0x1.0f6f64f431cd5p-4, -0x1.d21ac14a6b193p-3, 0x1.968d533c69024p-3,
    -0x1.f85ffed40910ep-3, 0x1.c863ea9419f10p-3, -0x1.d4bd0d93e8290p-5, 0x1.1e9eccc246e22p-2,
    -0x1.c1c9c89515ccap-5, -0x1.7b9a26b03fd8bp-2, -0x1.77c6c5b8ec61cp-8, -0x1.7021435c2f58ap-2,
    0x1.0089f4a02b333p-3, -0x1.888cc58b46407p-3, 0x1.665382c9370dep-3, -0x1.51c11c8bb5f00p-3,
    0x1.fc5128335bea6p-3, -0x1.6f103cbedecb7p-4, 0x1.401ea04ed897ep-2, -0x1.6febd7063a925p-5,
    -0x1.694c4595415bcp-2, 0x1.023cf11ae7934p-4, -0x1.3c582c6d30a2bp-2, 0x1.b0f1dddb89586p-4,
    -0x1.bd275f8582ab0p-3, 0x1.80ed892bd4d41p-3, -0x1.3da2cb0d9f60bp-3, 0x1.085d115e6a6c6p-2,
    -0x1.976864fc0aa26p-4, 0x1.5000000000000p-2, 0x1.ef08783e410bbp-7, -0x1.4a23427ce4e74p-2,
    -0x1.aaa028a1a423ap-7};
inline constexpr double statistics[] = {
    -0x1.a9b94e0cec8ffp-8, -0x1.13ce3baf905f9p-7, 0x1.0e0997832daf3p-2, 0x1.1b2e76db804adp-2};

}  // namespace gx::testing::micro_batches
