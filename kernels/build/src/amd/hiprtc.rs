//! The other compiler that the sources are written for: hiprtc of HIP 5.2, which compiles what users bring.
