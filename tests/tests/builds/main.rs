//! Images on container engines: pulled, loaded, removed and built. A build leaves nothing but the image.

mod build;
mod golden;
mod handover;
mod hostile;
mod pull;
mod workshop;
